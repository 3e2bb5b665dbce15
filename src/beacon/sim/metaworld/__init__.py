"""Meta-World's tasks (Yu et al., 2019; PyPI ``metaworld``, MIT) behind the same commands as our own.

``beacon generate metaworld/door-open-v3`` and so on. Scenes, experts and criteria of success are the
package's; domains, pictures, sensors and files are ours.
"""
