#!/bin/bash
# all.sh [PAGE]: runs all benchmarks. With a page of the documentation it runs those with tables three
# times, and writes their medians there. One that fails says so in the page, and the rest runs.
set -u
cd "$(dirname "$0")/../../.." || exit
page=$(mktemp)
runs=$(mktemp -d)
trap 'rm -rf "$page" "$runs"' EXIT
failed=0
times=1
[ $# = 0 ] || times=3

part() { # TITLE COMMAND...
  local title=$1 out
  shift
  printf '\n## %s\n' "$title" >&2
  out=$("$@") || { failed=1; out+=$'\n'"It failed."; }
  printf '\n## %s\n\n```text\n%s\n```\n' "$title" "$out" >>"$page"
  printf '%s\n' "$out"
}

table() { # PACKAGE: its table is of all its runs
  rm -f "$runs"/*
  for ((run = 1; run < times; run++)); do
    TUNCTL_BENCH_RUNS=$runs go run "$1" >&2 || true # what fails once is missing in the table
  done
  TUNCTL_BENCH_RUNS=$runs go run "$1"
}

functions() { # what `go test -bench` prints, without its words about packages
  go test -run '^$' -bench . -benchtime 1s ./... | grep '^Benchmark' | sed -E 's/^Benchmark//; s/-[0-9]+ +\t/\t/' | expand -t 60,75,95,115,130
  return "${PIPESTATUS[0]}"
}

day() { # the tables of the simulated days
  TUNCTL_WHOLE_DAY=1 go test -count=1 -v -run 'TestWorkday/(stays|asks)' ./internal/agent | grep -v '^=== \|^ *--- \|^PASS\|^ok '
  return "${PIPESTATUS[0]}"
}

cat >"$page" <<END
# Performance

What \`make bench DOCS=1\` printed on $(date -u +%Y-%m-%d): $(nproc) processors ($(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)), $(awk '/^MemTotal/ { printf "%.0f", $2 / 1e6 }' /proc/meminfo) GB of memory, $(. /etc/os-release && echo "$PRETTY_NAME"),
$(ssh -V 2>&1 | cut -d, -f1), $(go env GOVERSION). Each row is the median of three runs, by its ratio if it has one, and OF is the
range of the three. A goal that is missed stays in the table. "Not judged" is a row during which other programs needed the
processors; figures of other machines differ, ratios less.
END
part 'Forwards beside `ssh -L` and autossh' table ./internal/dev/bench
part 'Copies beside `scp` and `ssh`' table ./internal/dev/bench/transfer
part 'From `up` to the page' table ./internal/dev/bench/start
part 'Inside the job' table ./internal/dev/bench/inside
part 'The dashboard' table ./internal/dev/bench/dashboard
part 'The live screen' table ./internal/dev/bench/watch
part 'How costs grow' table ./internal/dev/bench/growth
part 'What the hosts see of a working day' day
part 'Functions' functions
[ $# = 0 ] || cat "$page" >"$1"
exit $failed
