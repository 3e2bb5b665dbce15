from soak.campaign import Campaign


class Numbers(Campaign):
    name = "numbers"
    share = 0.1
