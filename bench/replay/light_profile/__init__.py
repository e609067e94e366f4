"""iGniter's light profile (Sec. 3.1) of the GPU at hand: what ``bench profile fit`` makes a catalogue entry of."""
