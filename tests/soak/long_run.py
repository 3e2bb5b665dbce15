from soak.campaign import Campaign


class LongRun(Campaign):
    name = "long_run"
    share = 0.1
