#!/usr/bin/env bash
# Starts a cluster on this machine to try it out: three NATS servers and three engines,
# which share keys, policy and tools. It prints the addresses; Ctrl-C ends everything.
# See docs/howto/existing-cluster.md.
set -euo pipefail

usage='usage: deploy/cluster/try.sh [FOLDER]
FOLDER keeps the data (default: a new one, which is removed at the end).
Variables: ASKANCE and NATS_SERVER (the programs), PORT (the first of nine, default 14220).'
case ${1-} in -h | --help) echo "$usage"; exit 0 ;; esac

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
askance=${ASKANCE:-$repository/bin/askance}
nats=${NATS_SERVER:-$repository/bin/nats-server}
port=${PORT:-14220}
for program in "$askance" "$nats"; do
  [ -x "$program" ] || { echo "$program is missing: run make cluster" >&2; exit 1; }
done
folder=${1-}
[ -n "$folder" ] || { folder=$(mktemp -d) && temporary=$folder; }
mkdir -p "$folder"

processes=()
end() {
  trap - EXIT INT TERM
  for process in "${processes[@]}"; do kill -TERM "$process" 2>/dev/null || true; done
  wait
  [ -z "${temporary-}" ] || rm -rf "$temporary"
}
trap end EXIT
trap 'exit 0' INT TERM

# begin NAME COMMAND... starts a process with its log in the folder.
begin() {
  local name=$1
  shift
  "$@" >"$folder/$name.log" 2>&1 &
  processes+=($!)
}

# await NAME TEXT waits until the log has the text, for at most a minute.
await() {
  for _ in $(seq 600); do
    grep -q "$2" "$folder/$1.log" 2>/dev/null && return
    sleep 0.1
  done
  echo "$1 is not ready after a minute:" >&2
  tail -n 20 "$folder/$1.log" >&2
  exit 1
}

routes= servers=
for n in 0 1 2; do
  routes+=" nats://127.0.0.1:$((port + 3 + n))"
  servers+=,nats://127.0.0.1:$((port + n))
done
for n in 0 1 2; do
  cat >"$folder/nats-$n.conf" <<CONF
server_name: nats-$n
listen: "127.0.0.1:$((port + n))"
jetstream: {store_dir: "$folder/nats-$n"}
cluster: {name: askance, listen: "127.0.0.1:$((port + 3 + n))", routes: [$(printf '"%s", ' $routes)]}
CONF
  begin "nats-$n" "$nats" -c "$folder/nats-$n.conf"
done
for n in 0 1 2; do await "nats-$n" 'JetStream cluster new metadata leader\|Self is new JetStream cluster metadata leader'; done

if [ ! -e "$folder/policy.yaml" ]; then
  cat >"$folder/policy.yaml" <<'YAML'
version: 1
name: try
rules:
  - {name: small, tool: greet, behavior: allow, when: 'args.name != "everyone"'}
  - {name: everyone, tool: greet, behavior: ask, when: 'args.name == "everyone"'}
YAML
  cat >"$folder/tools.yaml" <<'YAML'
version: 1
tools:
  - name: greet
    idempotent: true
    command: [sh, -c, 'echo "hello, $(cat)"']
    input_schema: {type: object, required: [name], properties: {name: {type: string}}}
YAML
fi
for n in 0 1 2; do
  begin "engine-$n" "$askance" serve --nats "${servers:1}" --data "$folder/engine-$n" --keys "$folder/engine.key" \
    --policy "$folder/policy.yaml" --tools "$folder/tools.yaml" --http "127.0.0.1:$((port + 6 + n))" --agent-id "engine-$n"
  await "engine-$n" 'askance is running'
done

echo "NATS     ${servers:1}"
for n in 0 1 2; do
  echo "engine-$n http://127.0.0.1:$((port + 6 + n))  process ${processes[$((3 + n))]}, with nats-$n as process ${processes[$n]}"
done
cat <<TEXT
logs     $folder
Try:     askance status --nats ${servers:1}
         askance journal replicas --nats ${servers:1}
         kill -9 one of the processes, and see /readyz of an engine
Ctrl-C ends all of it.
TEXT
wait
