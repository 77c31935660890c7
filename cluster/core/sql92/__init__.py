"""SQL92 filter expressions over message properties (docs/spec/store.md 7.4); see README.md."""
