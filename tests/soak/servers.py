from soak.campaign import Campaign


class Servers(Campaign):
    name = "servers"
    share = 0.1
