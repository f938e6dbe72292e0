#!/usr/bin/env bash
# Simulates hosts on one machine: network namespaces on one switch, each with its own name and address. Processes of
# different hosts reach each other only by TCP, as on a cluster. The hosts share the memory and files of the machine.
# Each host uses one core; if there are more hosts than cores, hosts share cores. Needs root and `ip` (iproute2).
#
#   hosts.sh up NAME COUNT            makes hosts NAME-0, NAME-1, ...
#   hosts.sh on HOST WORDS...         runs the command WORDS on HOST
#   hosts.sh mpirun NAME COUNT WORDS  runs Open MPI's mpirun on NAME-0, with one process on each host; WORDS may begin
#                                     with options of mpirun
#   hosts.sh mpich NAME COUNT WORDS   runs MPICH's mpiexec in this way
#   hosts.sh cut HOST                 disables the link of HOST
#   hosts.sh mend HOST                enables the link of HOST again
#   hosts.sh kill HOST                kills the processes of HOST
#   hosts.sh rate HOST 200mbit        limits the rates at which HOST sends and receives (`tc`)
#   hosts.sh sweep PREFIX             removes hosts whose name is PREFIX and the id of a process that has ended
#   hosts.sh down NAME                kills the processes of the hosts NAME-0, NAME-1, ..., and removes these hosts
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin  # the folders of `tc` and `ip`

self=$(realpath "$0")
act=${1:?see the head of $0}
shift

switch_of() { echo "${1%-*}-switch"; }
port_of() { echo "port${1##*-}"; }

# Prints the cores of process 1, since the cores of this process may already be restricted.
usable_cores() {
  local part
  for part in $(awk '/^Cpus_allowed_list/ { gsub(",", " "); $1 = ""; print }' /proc/1/status); do
    seq "${part%-*}" "${part#*-}"
  done
}

on() {  # HOST WORDS
  local host=$1
  shift
  local cores
  cores=($(usable_cores))
  local core=${cores[$((${host##*-} % ${#cores[@]}))]}
  exec ip netns exec "$host" unshare --uts taskset -c "$core" bash -c 'hostname "$1"; shift; exec "$@"' - "$host" "$@"
}

up() {  # NAME COUNT
  local name=$1 count=$2 i k
  ip netns add "$name-switch"
  ip -n "$name-switch" link add name switch type bridge
  ip -n "$name-switch" link set dev switch up
  for ((i = 0; i < count; ++i)); do
    local host=$name-$i
    ip netns add "$host"
    ip -n "$host" link add name eth0 type veth peer name "port$i" netns "$name-switch"
    ip -n "$name-switch" link set dev "port$i" master switch up
    ip -n "$host" addr add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "$host" link set dev eth0 up
    ip -n "$host" link set dev lo up
    mkdir -p "/etc/netns/$host"  # files in this folder replace files of /etc on the host
    for ((k = 0; k < count; ++k)); do
      echo "10.77.0.$((k + 1)) $name-$k"
    done >"/etc/netns/$host/hosts"
  done
  "$self" on "$name-0" true  # checks that commands can be run on a host
}

kill_all() {  # HOST
  local process
  for process in $(ip netns pids "$1"); do
    kill -KILL "$process" 2>/dev/null || true  # the process may have ended
  done
}

down() {  # NAME
  local host
  for host in $(ip netns list | awk -v name="$1" '$1 ~ "^" name "-([0-9]+|switch)$" { print $1 }'); do
    kill_all "$host"
    ip netns del "$host"
    rm -rf "/etc/netns/$host"
  done
}

sweep() {  # PREFIX
  local name
  for name in $(ip netns list | awk -v prefix="$1" '$1 ~ "^" prefix "[0-9]+-switch$" { print $1 }'); do
    name=${name%-switch}
    [ -e "/proc/${name#"$1"}" ] || down "$name"
  done
}

list() {  # NAME COUNT
  local hosts="" i
  for ((i = 0; i < $2; ++i)); do
    hosts+=${hosts:+,}$1-$i
  done
  echo "$hosts"
}

run_mpi() {  # NAME COUNT WORDS
  local name=$1 count=$2 hosts
  hosts=$(list "$name" "$count")
  shift 2
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  on "$name-0" mpirun --mca plm_rsh_agent "$self agent" --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
    --bind-to none --host "$hosts" -n "$count" "$@"
}

run_mpich() {  # NAME COUNT WORDS
  local name=$1 count=$2 hosts
  hosts=$(list "$name" "$count")
  shift 2
  on "$name-0" mpiexec.mpich -launcher ssh -launcher-exec "$self" -iface eth0 -hosts "$hosts" -n "$count" "$@"
}

case $act in
  up) up "$@" ;;
  down) down "$@" ;;
  sweep) sweep "$@" ;;
  on) on "$@" ;;
  agent) on "$1" bash -c "${*:2}" ;;  # called by mpirun instead of ssh, to start its processes on other hosts
  -x) on "$1" bash -c "${*:2}" ;;  # called by mpiexec instead of ssh; -x is an option of ssh
  mpirun) run_mpi "$@" ;;
  mpich) run_mpich "$@" ;;
  kill) kill_all "$1" ;;
  cut) ip -n "$(switch_of "$1")" link set dev "$(port_of "$1")" down ;;
  mend) ip -n "$(switch_of "$1")" link set dev "$(port_of "$1")" up ;;
  rate)
    # A burst of 64 KiB, the size of a packet that is not yet segmented, halves the rate of two directions at 1 Gbit/s.
    tc -n "$1" qdisc replace dev eth0 root tbf rate "$2" burst 256kb latency 50ms
    tc -n "$(switch_of "$1")" qdisc replace dev "$(port_of "$1")" root tbf rate "$2" burst 256kb latency 50ms
    ;;
  *)
    echo "hosts.sh: unknown command \`$act\`: see the head of $0" >&2
    exit 2
    ;;
esac
