"""Keep lake tables small and fast: the job of the `BinlogMaintenanceOperator`."""
