"""Makes the helpers of this folder known to the tests in its subfolders."""
