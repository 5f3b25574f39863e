// Package chat lets people talk to agents from where they already write: a bridge
// makes a task of each message from somebody it allows, and brings the task's
// result back into the same conversation. A bridge reads and writes tasks through
// the mailbox alone, and nothing rests on it.
//
// The packages below this one each speak one protocol (a [Kind]) and know nothing
// of tasks; this one knows nothing of protocols.
//
// # What comes in
//
// A channel hands over each message at least once ([Inbox.Take]); the message's ID
// is the task's idempotency key, so the second time is no second task. The place
// up to which a channel was read ([Inbox.Keep]) is kept when all before it are
// tasks on the disk: a kill at any moment repeats messages, and loses none.
//
// # What goes out
//
// Before a notice is sent, the ledger says so (leg intent), and behind it what
// came of it. After a kill between the two nobody knows whether it was sent. So a
// channel that can be searched or has keys of its own ([Once]) is asked, and the
// notice is sent exactly once; in one that can not, it is sent again and says that
// it may be a repetition ([Notice.Again]).
package chat

import (
	"context"
	"errors"
	"io"
	"time"
)

// Channel is a connection to one account of a chat system. Receive and Send run at
// the same time; Send is called by one goroutine.
type Channel interface {
	// Receive hands over what was said behind the place that was kept last, or
	// from now on where kept is "", in order, and goes on until ctx ends or the
	// connection does. It returns nil only when there is nothing more to come.
	// It does not connect again: the bridge calls it again, after a pause that
	// grows. An error that wraps ErrSetup is not tried again.
	Receive(ctx context.Context, kept string, in Inbox) error

	// Send sends a notice and returns when the server has it: the message's id of
	// the channel, "" where there is none. An error that wraps ErrRefused will
	// come again however often it is tried (no such room, not allowed); one that
	// is a *WaitError names the pause that the server asked for; any other may
	// have been sent or not.
	Send(ctx context.Context, n Notice) (id string, err error)

	// Check tells in a line who the server says we are, or what is wrong with
	// credentials, server or rooms. It changes nothing.
	Check(ctx context.Context) (string, error)
}

// Searcher is a channel in which can be found what was sent.
type Searcher interface {
	// Sent looks whether a notice with this key was sent into the conversation,
	// and returns the message's id; "" where it was not.
	Sent(ctx context.Context, n Notice) (id string, err error)
}

// Inbox takes what a channel receives. Its methods may be called by one goroutine.
type Inbox interface {
	// Take makes a task of a message, or refuses it, or does the command that it
	// is. When it returns nil the message needs not come again. An error means
	// that nothing was made of it: Receive ends with it.
	Take(ctx context.Context, m Message) error

	// Keep keeps the place up to which all was taken. It is the channel's own
	// text: a number, a token, JSON; at most 4 KiB.
	Keep(ctx context.Context, place string) error

	// Seen says that a message which was sent has been read by who got it. id is
	// what Send returned.
	Seen(ctx context.Context, id string) error
}

// Message is something that somebody said.
type Message struct {
	ID    string // the channel's, the same whenever it comes again; unique in the account
	From  string // who, as the channel vouches for it; case as the channel has it
	Name  string // what they call themselves: shown, never trusted
	In    Conversation
	Text  string // as it came, but a command (/help) without our own name in it; the bridge removes control characters
	Title string // a subject, where the channel has such a thing
	At    time.Time
	Files []File
	Proof string // what the channel knows about From beyond the name, in words: "dkim=example.org dmarc=pass"; "" for nothing
}

// Conversation is where a message was said and where its answer goes.
type Conversation struct {
	Peer   string // the other person of a direct conversation, as From names them; else the room, as Settings.Rooms does
	Group  bool
	Thread string // "" for none
}

// File is an attachment.
type File struct {
	Name string // as it came: not safe as a path
	Type string // media type; "" if unknown
	Size int64  // as it was said; -1 if unknown
	Open func(context.Context) (io.ReadCloser, error)
}

// Notice is something that a bridge says: the result of a task, or the answer to a
// command.
type Notice struct {
	Key   string // the same for each try, 32 letters and digits: the channel's own idempotency key, where it has one
	To    Conversation
	Reply string    // the ID of the message that it answers; "" for none
	Title string    // a subject, where the channel has such a thing
	Text  string    // plain text, at most Limits.Text; lines end with \n
	File  *File     // only where Limits.File is not 0
	Again bool      // it may be there already, and the channel cannot tell: Text says so
	Since time.Time // before this it cannot have been sent; zero where nobody knows
}

// Limits are what a channel's messages may hold.
type Limits struct {
	Text  int           // bytes of a message's text
	Lines int           // lines of a message; 0 for any number
	Parts int           // messages that a text may be cut into; what is longer is cut off or goes as a file
	File  int64         // bytes of a file; 0 where the channel takes none
	Every time.Duration // between two messages
}

// Once says how often a notice arrives when the process is killed between sending
// it and writing that down.
type Once int

const (
	// AtLeastOnce: it is sent again, and says so.
	AtLeastOnce Once = iota
	// ByKey: Send with a Key that was sent before sends nothing, for as long as
	// the server says.
	ByKey
	// BySearch: the channel is a Searcher.
	BySearch
)

// Kind is a chat system.
type Kind struct {
	Name   string
	About  string   // a line for people
	Needs  []string // the keys of Settings, by their names in mbox.toml, that must be there
	Takes  []string // those that may be there
	Limits Limits
	Once   Once
	Sends  bool                // it only sends: Receive is never called
	OneWay func(Settings) bool // tells whether with these settings it only receives; nil: it never does
	Stdio  bool                // it speaks by standard input and output: mbox bridge runs it, and mbox up does not
	Claims bool                // From is what anybody may call themselves, and only Proof tells more
	Open   func(Settings) (Channel, error)

	// Account names the account, where neither user nor the whole token does: a new
	// token is no new account. nil for those.
	Account func(Settings) string

	// Conversation reads the sessions of its tasks, where they are not made by
	// Session; nil for ParseSession.
	Conversation func(session string) (Conversation, bool)
}

// Settings are what a table [bridges.NAME] says to its channel. A kind names those
// that it uses; the others are refused. Secrets are read from the file or the
// variable that the table names (token_file, token_env, password_file,
// password_env).
type Settings struct {
	Name     string                           // of the bridge
	Server   string                           // server: a URL, whose scheme tells protocol and TLS
	Outgoing string                           // outgoing: a URL of the server that sends, where it is another
	User     string                           // user: the account: a nick, @user:server, an address
	Token    string                           // token_file, token_env
	Password string                           // password_file, password_env
	Rooms    []string                         // rooms: the groups that are joined or listened to
	Listen   string                           // listen: host:port where the server calls us
	Command  []string                         // command: a program and its arguments that speaks for us
	Format   string                           // format: how messages are written, where the kind knows several ways
	Method   string                           // method: by which of its ways the server sends, where it has several
	CA       string                           // ca: a PEM file, absolute, of who signs the server's certificate
	Authserv string                           // authserv: by which name the server says in a mail's header what it knows of the sender
	Insecure bool                             // insecure: credentials may travel in the clear, to another machine
	Log      func(format string, args ...any) // a remark for whoever runs the bridge; never a secret
}

// ErrSetup is wrapped by errors that will be there until a person mends the
// settings: wrong credentials, an unknown server name.
var ErrSetup = errors.New("the bridge cannot work as it is set up")

// ErrRefused is wrapped by errors of Send that no repetition mends.
var ErrRefused = errors.New("the channel refuses the message")

// WaitError says that a server wants a pause.
type WaitError struct {
	For time.Duration
	Err error
}

func (e *WaitError) Error() string { return e.Err.Error() }
func (e *WaitError) Unwrap() error { return e.Err }

// WordsError is an error with what a program wrote beside it. That may repeat what the
// program was told, a task's title say: it is for a log, and not for the ledger.
type WordsError struct {
	Err   error
	Words string
}

func (e *WordsError) Error() string { return e.Err.Error() + ": " + e.Words }
func (e *WordsError) Unwrap() error { return e.Err }
