"""The same workload against pysyncobj, another replicated log, whose known faults must be found."""
