package memory

// Fault is what is wrong with a server that keeps memories, and how to mend it.
type Fault struct {
	In  string // what keeps them, for people: Postgres
	Err error
	Fix string
}

func (f *Fault) Error() string { return "the memory in " + f.In + ": " + f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }
