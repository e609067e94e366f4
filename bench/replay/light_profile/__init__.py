"""iGniter's light profile (Sec. 3.1) of this host's GPU, from which ``bench profile fit`` makes a catalogue entry."""
