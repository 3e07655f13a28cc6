#!/bin/bash
#SBATCH --job-name=ticker
#SBATCH --time=10:00
#SBATCH --output=ticker.%j.out
#SBATCH --error=ticker.%j.err
# A line every second, a progress bar with \r, and now and then a word on stderr.
for i in $(seq 1 "${COUNT:-600}"); do
	echo "epoch $i"
	printf '\r%3d%%' "$i"
	[ $((i % 10)) = 0 ] && echo "warning $i" >&2
	sleep "${INTERVAL:-1}"
done
