"""What changes in a workspace, told by Linux: nothing in a sandbox has to be believed."""
