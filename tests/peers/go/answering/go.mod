module answering

go 1.26.0
