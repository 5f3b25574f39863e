// Package agents runs the agents of a mailbox. A [Worker] claims tasks and does
// them: as a member of a [Team] by actions, or by a command, one process group an
// attempt.
//
// # Work by actions
//
// A task carries its action (mbox.action), or the agent's [Brain] replies with
// some. Either way all of them are judged before the first is done, in one order:
// the role is known, it allows the action, the parameters are right, the depth is
// within the limit, and the agent's policy agrees. Judged is at the creation of a
// task ([Team.Review]) and again when it is claimed; each decision is a line
// "delegation" in the ledger, each refusal by a policy one of "policy_denied"
// besides. A reply is done whole or not at all.
//
// A model decides nothing but which of its agent's actions are done, with which
// parameters. What it is told of tasks, files and other agents is data between
// marks that nobody can guess, with its origin.
//
// What a person has to approve is one action with its parameters: a task that
// carries it is held until then. Where a brain asks for such an action, those of its
// reply become tasks of their own for the same agent, one after the other, and the
// task waits for them; what has still to be thought up cannot be approved.
//
// The action delegate makes tasks for other agents. The one that handed them on
// goes back to pending and waits; when they have ended it is claimed again, and
// its brain is told what came of them, failures too.
//
// A brain that is busy, away or lacks its model burns no attempt: the task is
// given back, and while the brain does not answer its agent takes only tasks that
// carry an action. A reply that is no use burns one; the last attempt's error says
// what was wrong with it and what may help.
//
// Killed between an action and the line that tells of it, an attempt does the
// action again: actions are repeatable, and are debited when they are noted.
//
// # What a command gets and gives
//
// The command is run by /bin/sh -c in agents/<agent>/workspace, with umask 077,
// in a process group and a session of its own, without a terminal, and is over
// when its process has ended: what it left gets SIGTERM then, and SIGKILL after
// the grace, also what has left the group or the session. It gets:
//
//	stdin             the task's JSON, the bytes of tasks/in-progress/<id>.json
//	MBOX_TASK_FILE    a file with the same bytes, gone after the attempt
//	MBOX_HOME         the mailbox
//	MBOX_AGENT        who works
//	MBOX_AGENT_HOME   its home, of one that was born
//	MBOX_TASK_ID      the task's id
//	MBOX_ATTEMPT      which attempt this is, from 1
//	MBOX_TOKEN        the claim's token, for mbox progress and its like
//	MBOX_CHANNEL      of an inbox item: where the message was said of which it tells
//	MBOX_MESSAGE      of an inbox item: the id of that message
//	MBOX_ARTIFACTS    a folder; the regular files left in it become artifacts
//	MBOX_INPUTS       a folder: copies of what the task may read, the artifacts of
//	                  the tasks that it depends on and of its children under
//	                  <their id>/, what its sender attached under <its id>/
//	descriptor 3      an empty file: whoever holds it open holds the task
//
// The rest of the environment is Worker.Env (of mbox's own commands: what programs
// need, and what the risk profile passes through), or without it the worker's, and
// the agent's secrets, by Worker.Unlock. It gives:
//
//	stdout            result.output: JSON if it is strict JSON, else text without
//	                  the newlines at its end; in another [Format] what that says
//	exit 0            completes the task
//	exit 75           gives it back for later, without burning the attempt
//	any other end     ends the attempt: codes exit, signal, timeout, silence, start,
//	                  agent; Worker.Exit may say release or final for an exit code
//	one of those that tells of a quota    gives it back until that begins anew, see
//	                                      Worker.Quota
//	stderr            what mbox logs shows, logs/<id>.<epoch>.log, but for
//
//	mbox:progress [PERCENT[%]] MESSAGE    how far the work is; one a second is passed on
//	mbox:delay DURATION                   with exit 75: when to try again (5s)
//
// A command may also end its claim itself, with mbox complete, fail or release;
// then its exit code and its output count for nothing.
//
// # Other runtimes
//
// A [Runtime] does whole tasks by a system of its own, as a command does, and gives
// what came of it as a [Done]. What it has to ask a person is a task of its own, with
// the action [Permission], for which its task waits as one that was handed on.
//
// # What holds
//
// The lease follows the work. It is renewed while the command lives: one that hangs loses its task at Worker.Timeout,
// and if it hangs in silence at Worker.Silence. A claim that is over (cancelled,
// reclaimed, moved by hand) ends all of its command at once, and so does the
// worker's death. The command begins only when the lease file says what ends it;
// and no command outlives its attempt, on success neither.
//
// Any number of workers, in one process or many, may serve one mailbox and one
// agent.
package agents
