"""Code shared by several stores."""
