"""What a delivered gigabyte costs a relay: ours, a plain one on aioquic, and moq-rs, in one run."""
