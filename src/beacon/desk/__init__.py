"""``beacon desk``: look through demonstrations on a local page, and decide about them.

collection    datasets that are open, and all of their demonstrations
annotations   what an audit and a run say of them
neighbors     the target demonstration that is nearest to one
pictures      frames as JPEG, decoded when they are asked for
details       what the page is told of the collection, and of one demonstration
journal       decisions.jsonl behind the page
server        the page's server: loopback, a key in the address
rerun_file    the same demonstrations as a file for the Rerun viewer
page/         HTML, CSS and JavaScript of the page
"""
