#!/bin/sh
# A provisioner for mbox agent birth: it makes a virtual machine at Google Cloud, as The
# Agent Colony does, puts the home of the agent there, and registers the agent as a user
# of this mailbox's gateway:
#
#   mbox agent birth ada --soul ada.md --provisioner examples/provision/gcp.sh
#
# It may be run again for the same agent: what is there stays. It gets
#
#   MBOX_NEWBORN  MBOX_NEWBORN_HOME  MBOX_NEWBORN_ROLE  MBOX_BIN   (mbox help colony)
#
# and takes from the environment, never from an argument:
#
#   MBOX_URL         the gateway that is told, such as http://127.0.0.1:8787
#   MBOX_TOKEN_FILE  a file, mode 0600, with the token of an operator for it
#   CLAUDE_ENV_FILE  a file, mode 0600, with ANTHROPIC_API_KEY=…, copied to the machine
#
# What runs there reaches this mailbox by the gateway: mbox itself works on one machine.
set -eu

project=${GCP_PROJECT:-apes-platform}
zone=${GCP_ZONE:-europe-west1-b}
type=${GCP_MACHINE:-e2-medium} # 4 GB: e2-small is too small for Claude Code
claude=${CLAUDE_VERSION:-2.1.34}
name=$MBOX_NEWBORN
vm=agent-$(printf %s "$name" | tr _ -)

: "${MBOX_URL:?the gateway, such as http://127.0.0.1:8787}"
test -r "${MBOX_TOKEN_FILE:?a file with the token of an operator}"
test -z "${CLAUDE_ENV_FILE:-}" || test -r "$CLAUDE_ENV_FILE"

gcp() { gcloud compute "$@" --project "$project" --zone "$zone" --quiet; }
remote() { gcp ssh "$vm" --command "$1" </dev/null; }

# 1. The machine, and 2. until it can be reached.
gcp instances describe "$vm" >/dev/null 2>&1 ||
  gcp instances create "$vm" --machine-type "$type" --image-family debian-12 \
    --image-project debian-cloud --boot-disk-size 20GB
tries=0
until remote true 2>/dev/null; do
  tries=$((tries + 1))
  test "$tries" -lt "${SSH_TRIES:-60}" || { echo "$vm cannot be reached by ssh" >&2; exit 1; }
  sleep "${SSH_PAUSE:-5}"
done

# 3. Its user and home, Node.js and Claude Code of one version, and what it is.
remote "sudo useradd --create-home --shell /bin/bash $name 2>/dev/null || id $name
sudo chmod 700 /home/$name
curl -fsSL https://deb.nodesource.com/setup_22.x | sudo bash -
sudo apt-get install -y nodejs git
sudo npm install -g @anthropic-ai/claude-code@$claude"
tar -C "$MBOX_NEWBORN_HOME" -cf - . |
  gcp ssh "$vm" --command "sudo -u $name tar -C /home/$name -xf -"
gcp scp "$MBOX_BIN" "$vm:/tmp/mbox"
remote "sudo install -m 755 /tmp/mbox /usr/local/bin/mbox"
if test -n "${CLAUDE_ENV_FILE:-}"; then
  gcp ssh "$vm" --command "sudo -u $name sh -c 'umask 077; cat >/home/$name/claude.env'" <"$CLAUDE_ENV_FILE"
fi

# 4. The user that it is here. Its token is told once, and goes to the machine at once. No
# secret is in an argument, or in what this prints.
if ! remote "sudo test -s /home/$name/mbox.token"; then
  answer=$(mktemp)
  trap 'rm -f "$answer"' EXIT
  { printf 'header = "Authorization: Bearer '; tr -d '\n' <"$MBOX_TOKEN_FILE"; printf '"\n'; } |
    curl -sS --fail-with-body --config - -o "$answer" -H 'Content-Type: application/json' \
      -d "{\"username\":\"$name\",\"role\":\"agent\"}" "$MBOX_URL/api/users" ||
    { cat "$answer" >&2; exit 1; }
  sed -n 's/.*"token": *"\([^"]*\)".*/\1/p' "$answer" |
    gcp ssh "$vm" --command "sudo -u $name sh -c 'umask 077; cat >/home/$name/mbox.token'"
fi
