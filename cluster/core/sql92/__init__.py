"""SQL92 filter expressions over message properties (store.md 7.4); see README.md."""
