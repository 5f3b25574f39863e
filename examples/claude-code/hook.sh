#!/bin/sh
# A PreToolUse hook of Claude Code: what it is asked about, a person has to approve.
# Each call becomes a task of its own, with the action "permission", which mbox holds:
#
#     mbox why may-…        what Claude Code wants to do, whole, and in which folder
#     mbox approve may-…    yes, to exactly this call in this task
#     mbox cancel may-…     no
#
# Whatever goes wrong here blocks the call: exit code 2.
set -u
[ -n "${MBOX_TASK_ID:-}" ] || exit 0 # not at work for mbox
call=$(jq -cS '{cwd: .cwd, input: .tool_input, tool: .tool_name}') && [ -n "$call" ] || exit 2
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }
sum=$(printf '%s %s' "$MBOX_TASK_ID" "$call" | sha256 | cut -c1-24)
if [ ${#sum} -ne 24 ]; then # the id would be that of another call
  echo 'hook.sh: neither sha256sum nor shasum works here' >&2
  exit 2
fi
id="may-$sum"

decide() {
  jq -cn --arg decision "$1" --arg why "$2" '{hookSpecificOutput: {
    hookEventName: "PreToolUse", permissionDecision: $decision, permissionDecisionReason: $why}}'
  exit 0
}

# The answer counts if it is one to exactly this call, of this agent.
answer=$(mbox show "$id" --json 2>/dev/null | jq -r --arg agent "$MBOX_AGENT" --argjson call "$call" '
  if .assignment.target_agent != $agent or .mbox.action.name != "permission"
    or .mbox.action.params.request != $call then "strange"
  elif .result.status == "completed" and .result.output == {allowed: true} then "yes"
  elif .result.status == "failed" then "no" else "waits" end')
case "$answer" in
yes) decide allow "a person has approved it" ;;
no) decide deny "a person has refused it: go on without" ;;
waits) ;;
"") jq -cn --arg id "$id" --arg agent "$MBOX_AGENT" --argjson call "$call" '
    {id: $id, task: {type: "action", title: "May \($agent) use \($call.tool)?"},
     source: {agent: $agent}, assignment: {target_agent: $agent},
     mbox: {action: {name: "permission", params: {tool: "permission", title: $call.tool, request: $call}}}}' |
  mbox send - >/dev/null || exit 2 ;;
*) exit 2 ;;
esac
[ -z "${MBOX_WAITS:-}" ] || : >"$MBOX_WAITS"
decide deny "a person has to approve it first (mbox approve $id): stop here, the task will be taken up again"
