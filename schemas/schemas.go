// Package schemas is the one door for JSON that others wrote, and the one
// source of JSON Schemas.
//
// What it guarantees: [Decode], [CheckCanonical] and [Schema.Validate] read a
// document in exactly one way or refuse it. Two programs that disagree about a
// duplicate key, a key in the wrong case, a broken character or bytes after
// the end can be played against each other, so all of these are errors, at any
// depth, also inside values that are kept raw. Every error is an [*Error] that
// names the JSON path, what is wrong, what would be right, and a stable code:
//
//	pending/x.json: task.priority: "hihg" is not allowed; want one of low, normal, high, urgent
//
// What it does not guarantee: that a document makes sense. Null is taken for
// any field and leaves its zero value, as everywhere in Go; missing fields are
// taken too. Who cares about either checks the schema as well, or the value.
//
// Schemas are generated from Go types ([Of], by invopop/jsonschema, which no
// other package uses) and held against documents ([Compile]). Nothing here reads a file or the network, keeps
// state, or starts a goroutine; everything may be called at once.
package schemas
