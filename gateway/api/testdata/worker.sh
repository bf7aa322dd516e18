#!/bin/sh
# usage: worker.sh URL TOOL, with the token in ASKANCE_TOKEN and engine.pub here
set -eu
: "${ASKANCE_TOKEN:?}" <engine.pub
url=$1 tool=$2 dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

send() { # OPERATION BODY: sends a request once; the answer is in the file of its name
  printf %s "$2" | curl -sS --fail-with-body --max-time 60 -o "$dir/$1" \
    -H "Authorization: Bearer $ASKANCE_TOKEN" -H 'Content-Type: application/json' --data-binary @- "$url/v1/work/$1"
}
ask() { # OPERATION BODY: sends a request until an engine answers
  : >"$dir/$1"
  until send "$1" "$2" && { [ "$1" != result ] || jq -e .state "$dir/$1" >/dev/null 2>&1; }; do # {} of a proxy is no answer
    case $(jq -r .code "$dir/$1" 2>&1) in
      invalid | too_large | forbidden | foreign | not_found | finished | archived | superseded | interrupted | wrong_state) return 1 ;;
    esac
    sleep 1
  done
}
report() { # FILE STATE: sends the result
  ask result "$(jq -c --argjson own "$own" --arg tool "$tool" --arg state "$2" --rawfile out "$1" \
    '$own + {result: {type: "tool_result", id: .tool_call_id, name: $tool, output: $out, state: $state}}' "$dir/call")" && return
  cat "$dir/result" >&2
  jq -e --arg file "$1" '(.code == "invalid" or .code == "too_large") and ($file | endswith("/output"))' "$dir/result" >/dev/null || return 0
  echo "the tool ran and ended with $2, but its result was refused: $(jq -r .detail "$dir/result")" >"$dir/refused"
  report "$dir/refused" error
}
bytes() { tr -- '-_' '+/' | openssl base64 -d -A; } # base64url with its padding
signed() { # PREFIX FILE: did an engine that we trust sign the object?
  key=$(jq -er --slurpfile o "$2" '.keys[] | select(.id == $o[0].key_id and .retired == null).public_key | ltrimstr("ed25519:")' engine.pub) || return 1
  { printf '\060\052\060\005\006\003\053\145\160\003\041\000'; echo "$key=" | bytes; } >"$dir/key"
  echo "$(jq -r .sig "$2")==" | bytes >"$dir/sig"
  { echo "$1"; jq -jcS 'del(.sig)' "$2"; } >"$dir/text"
  openssl pkeyutl -verify -pubin -keyform DER -inkey "$dir/key" -rawin -in "$dir/text" -sigfile "$dir/sig" >/dev/null 2>&1
}
run() { # the tool: arguments in, result out; the key makes a second run harmless
  printf 'refunded %s under %s\n' "$(cat "$1")" "$2"
}

while ask next "{\"tool_name\":\"$tool\"}"; do
  jq -e '.tasks[0]' "$dir/next" >"$dir/task" || continue
  jq .record.call "$dir/task" >"$dir/call"
  jq .attempt.grant "$dir/call" >"$dir/grant"
  digest=sha256:$(jq -jcS .request "$dir/call" | openssl dgst -sha256 -r | cut -d' ' -f1)
  own=$(jq -c --arg claim "$(openssl rand -hex 16)" '{session_id, reply_id, tool_call_id, attempt: .attempt.number, claim: $claim}' "$dir/call")
  start=$(jq -c --argjson own "$own" --arg id "$(openssl rand -hex 16)" '$own + {request: $id, grant_nonce: .nonce}' "$dir/grant")
  signed askance-grant-v1 "$dir/grant" && jq -e --arg digest "$digest" --arg tool "$tool" '
    def same(x): . as $c | ["space", "session_id", "reply_id", "tool_call_id", "tool_name"] | all(. as $k | $c[$k] == x[$k]);
    .attempt.grant as $g | .request as $r | same($g) and same($r) and .tool_name == $tool and .input == $r.input
    and .state == "submitted" and .attempt.claim == null and .blocked == null and $g.route == null and $g.digest == $digest
    and $g.attempt == .attempt.number and $g.bundle == $r.bundle and (now | todate[:19]) < $g.expires[:19]' "$dir/call" >/dev/null ||
    start=$(printf '%s' "$start" | jq -c '. + {refuse: "the grant is not for this call"}')
  began=$(jq -n 'now * 1000 | floor')
  ask start "$start" && signed askance-start-v1 "$dir/start" &&
    jq -e --argjson s "$start" '. as $r | ["claim", "request", "grant_nonce", "attempt", "tool_call_id"] | all(. as $k | $r[$k] == $s[$k])' "$dir/start" >/dev/null && started=yes || started=no
  ask ack "$(jq -c --arg tool "$tool" '{tool_name: $tool, task}' "$dir/task")" || true
  [ $started = yes ] || { sleep 1; continue; }
  if [ $((($(jq -n 'now * 1000 | floor') - began) * 4)) -gt $(($(jq .lease_ms "$dir/start") * 3)) ]; then
    ask result "$(printf '%s' "$own" | jq -c '. + {not_begun: "the start was answered too late"}')" || true
    continue
  fi
  while sleep "$(jq '.heartbeat_ms / 1000' "$dir/start")" && kill -0 $$; do send heartbeat "$own" || true; done >/dev/null 2>&1 &
  beats=$! state=success
  jq -jr .input "$dir/call" >"$dir/input"
  run "$dir/input" "$(jq -r .idempotency_key "$dir/start")" >"$dir/output" || state=error
  report "$dir/output" $state
  kill $beats
done
cat "$dir/next" >&2
exit 1
