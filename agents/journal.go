package agents

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// journal is an agent's log file, agents/<agent>/logs/<agent>.log: one JSON
// object a line, with agent_alias and task_id. Any number of workers append to
// it, each line with one write.
type journal struct {
	file *os.File
	log  zerolog.Logger
}

func openJournal(dir, agent string) (*journal, error) {
	path := filepath.Join(dir, audit.Folder(agent)+".log")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, durable.FileMode)
	if err != nil {
		return nil, err
	}
	return &journal{f, zerolog.New(f).With().Timestamp().Str("agent_alias", agent).Logger()}, nil
}

func (j *journal) close() { j.file.Close() }

// maxJournal is how many bytes of one attempt go into the log.
const maxJournal = 16 << 20

// of returns the function that logs an attempt's lines.
func (j *journal) of(id mailbox.ID) func(line string) {
	log := j.log.With().Str("task_id", string(id)).Logger()
	left := maxJournal
	return func(line string) {
		if left < 0 {
			return
		}
		if left -= len(line); left < 0 {
			log.Warn().Msg("mbox: the rest of this attempt's stderr is left out")
			return
		}
		log.Info().Msg(schemas.Sentence(line, maxRemark))
	}
}
