"""A page without a server: one file in which 3 x 3 is played against five opponents, with all exact values inside."""
