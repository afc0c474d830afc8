# shellcheck shell=bash
# What tools/up and tools/down share: where things are, and processes remembered by their id and start time, so that
# an id that the kernel has given to another process since is never taken for ours.

run=var/run

# Start time of a process, in clock ticks since boot (proc(5), field 22); nothing when it is gone.
start_time() { # PID
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    stat=${stat##*) } # the command's name, before it, may hold anything
    awk '$1 != "Z" { print $20 }' <<<"$stat"
}

# Prints the process id of a program that was started and still runs.
pid_of() { # NAME
    local pid start
    [ -r "$run/$1.pid" ] || return 1
    read -r pid start <"$run/$1.pid" || return 1
    [ -n "$start" ] && [ "$(start_time "$pid")" = "$start" ] || return 1
    echo "$pid"
}

remember() { # NAME PID
    printf '%s %s\n' "$2" "$(start_time "$2")" >"$run/$1.pid.tmp"
    mv "$run/$1.pid.tmp" "$run/$1.pid"
}

# Asks it to end, and ends it after 20 s. Returns 1 when it was not running.
stop() { # NAME
    local pid deadline=$((SECONDS + 20))
    if ! pid=$(pid_of "$1"); then
        rm -f "$run/$1.pid"
        return 1
    fi
    kill -TERM "$pid" 2>/dev/null || true
    while pid_of "$1" >/dev/null; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "$1 does not end: killing it" >&2
            kill -KILL "$pid" 2>/dev/null || true
            deadline=$((SECONDS + 20))
        fi
        sleep 0.05
    done
    rm -f "$run/$1.pid"
}

# Two of these at once would start everything twice.
lock_run() {
    mkdir -p "$run"
    exec 9>"$run/lock"
    flock -w 300 9 || { echo "another make up or make down is still running" >&2; exit 1; }
}
