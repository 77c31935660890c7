"""Pop consumption, served: taking, acknowledging, waiting, giving again."""
