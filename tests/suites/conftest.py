"""What the tests of suites share."""

import os

from tiny_runs import one_thread

__all__ = ["one_thread"]

# Ray gives up on processes that are slow to start or to answer, and on a busy machine those of a cluster take
# minutes. A node that is gone is noticed all the same: its connections break. Ray reads this on import.
PATIENCE = 900  # seconds
os.environ |= {
    "RAY_agent_register_timeout_ms": f"{PATIENCE}000",
    "RAY_gcs_rpc_server_reconnect_timeout_s": f"{PATIENCE}",
    "RAY_gcs_server_port_wait_time_s": f"{PATIENCE}",
    "RAY_gcs_server_request_timeout_seconds": f"{PATIENCE}",
    "RAY_health_check_timeout_ms": f"{PATIENCE}000",
    "RAY_raylet_start_wait_time_s": f"{PATIENCE}",
    "RAY_worker_register_timeout_seconds": f"{PATIENCE}",
    "RAY_memory_monitor_refresh_ms": "0",  # it kills workers where anybody has filled the memory
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
