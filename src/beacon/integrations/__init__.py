"""BEACON in other people's training loops; each needs its library only when it is used."""
