package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mbox/schemas"
)

// Error is something wrong in mbox.toml, or a file of mbox.d.
type Error struct {
	File    string
	Line    int // from 1; 0 where none is known
	Problem string
	Excerpt string // the lines around it, with a mark
	Hint    string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Problem
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Problem)
}

// decode reads a text strictly into c, beside what other files have set, and notes
// where each key stands.
func (c *File) decode(from *source) error {
	d := toml.NewDecoder(bytes.NewReader(from.data))
	d.DisallowUnknownFields()
	err := d.Decode(c)
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		return from.unknownKey(&unknown.Errors[0])
	case errors.As(err, &bad):
		line, _ := bad.Position()
		problem := badValue(bad)
		return &Error{File: from.path, Line: line, Problem: problem, Excerpt: strings.Replace(bad.String(), strings.TrimPrefix(bad.Error(), "toml: "), problem, 1)}
	case err != nil:
		return &Error{File: from.path, Problem: err.Error()}
	}
	lines, numbers := linesOf(from.data)
	if err := note(&c.origins, from, lines); err != nil {
		return err
	}
	return checkDurations(c, numbers)
}

// checkDurations refuses a duration that is a bare number of these keys: the library
// takes it, as nanoseconds.
func checkDurations(c *File, numbers map[string]bool) (err error) {
	c.walk("", reflect.ValueOf(*c), func(key string, v any) {
		if _, is := v.(Duration); is && numbers[key] && err == nil {
			err = advise(c.wrong(key, "this is a whole number, %s", wantDuration), "write it in quotes, with its unit")
		}
	})
	return err
}

// badValue tells the key and what is wrong, without the library's name and Go's
// types.
func badValue(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	if m := wrongType().FindStringSubmatch(text); m != nil {
		text = "this is " + tomlTypes[m[1]] + ", want " + wanted(m[2])
	}
	if key := strings.Join(e.Key(), "."); key != "" {
		text = key + ": " + text
	}
	return text
}

// wrongType is what the library says of a value that does not fit a field.
var wrongType = schemas.Pattern(`^cannot decode TOML (.+) into .+ of type (.+)$`)

// tomlTypes are the library's names of what stands in a file, as people say it.
var tomlTypes = map[string]string{
	"string": "a text", "integer": "a whole number", "float": "a number", "boolean": "true or false", "array": "a list",
	"inline table": "a table", "table": "a table", "datetime": "a time", "local date": "a date", "local time": "a time", "local datetime": "a time",
}

// wanted tells a type of Go's for people.
func wanted(t string) string {
	switch {
	case t == "bool":
		return "true or false"
	case t == "int", t == "int64", t == "*int":
		return "a whole number"
	case t == "float64", t == "*float64":
		return "a number"
	case strings.HasPrefix(t, "[]"):
		return "a list of texts"
	case strings.HasPrefix(t, "map["), strings.HasPrefix(t, "config."), strings.HasPrefix(t, "*config."):
		return "a table"
	}
	return "a text in quotes"
}

func (f *source) unknownKey(e *toml.DecodeError) error {
	line, _ := e.Position()
	if table, key := splitKey(e.Key()); isSecret(key) || table == "postgres." {
		hint := "key_file names a file that holds it, key_env a variable"
		if table == "serve." {
			hint = "mbox token create NAME --role operator makes a token, and keeps it elsewhere"
		}
		if strings.HasPrefix(table, "bridges.") || strings.HasPrefix(table, "notify.") {
			hint = "token_file or password_file names a file that holds it, token_env or password_env a variable"
		}
		if table == "postgres." {
			hint = "url_file names a file that holds what connects, url_env a variable"
		}
		if table == "telemetry." {
			hint = "headers_file names a file that holds it, headers_env a variable"
		}
		return &Error{ // without the Excerpt: it would show the secret
			File: f.path, Line: line, Hint: hint,
			Problem: fmt.Sprintf("%s: a secret does not stand in %s", schemas.Sentence(table+key, 100), Name),
		}
	}
	for i, part := range e.Key() {
		if advice, known := unsupported[part]; known {
			return &Error{
				File: f.path, Line: line, Excerpt: e.String(),
				Problem: schemas.Sentence(strings.Join(e.Key()[:i+1], "."), 100) + " is not supported", Hint: advice,
			}
		}
	}
	out := &Error{
		File: f.path, Line: line, Excerpt: e.String(),
		Problem: fmt.Sprintf("unknown key %s", schemas.Sentence(strings.Join(e.Key(), "."), 100)),
		Hint:    "mbox schema print config lists every key",
	}
	known, wrong := knownKeys(reflect.TypeFor[File](), e.Key())
	if near := schemas.Suggest(wrong, known); near != "" {
		out.Hint = fmt.Sprintf("did you mean %s?", near)
	}
	return out
}

// unsupported are keys that people look for and that would do nothing here, most
// of them of ZeroClaw's profiles, with what does something instead.
var unsupported = map[string]string{
	"approval_route":         "mbox asks nobody by itself: what needs an approval waits for mbox approve, until its deadline if it has one",
	"firejail_args":          `sandbox = "landlock" in the agent's table confines its commands`,
	"max_cost_per_day_cents": "mbox does not know what a model costs; max_tokens in [delegation] bounds what a task may spend",
	"shell_timeout_secs":     "timeout in [roles.NAME] ends the command of a brain, timeout in [agents.NAME] that of exec",
}

func splitKey(path []string) (table, key string) {
	last := len(path) - 1
	if last < 0 {
		return "", ""
	}
	if last > 0 {
		table = strings.Join(path[:last], ".") + "."
	}
	return table, path[last]
}

// secretKeys are names, without _ and -, under which people write secrets.
var secretKeys = []string{
	"key", "apikey", "token", "apitoken", "accesstoken", "authtoken", "bearer", "bearertoken",
	"password", "passwd", "secret", "secretkey", "accesskey", "credentials",
}

func isSecret(key string) bool {
	return slices.Contains(secretKeys, strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key)))
}

// knownKeys walks down a key's path to the first part that is unknown, and
// tells what is known there.
func knownKeys(t reflect.Type, path []string) (known []string, wrong string) {
	for _, part := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			return nil, part
		}
		next, names := fieldOf(t, part)
		if next == nil {
			return names, part
		}
		t = next
	}
	return nil, ""
}

func fieldOf(t reflect.Type, key string) (field reflect.Type, names []string) {
	for f := range t.Fields() {
		tag := f.Tag.Get("toml")
		if tag == "" {
			continue
		}
		names = append(names, tag)
		if tag == key {
			field = f.Type
		}
	}
	return field, names
}

// linesOf tells on which line each key and table of a well-formed text stands, and which
// keys are set to a whole number.
func linesOf(data []byte) (where map[string]int, numbers map[string]bool) {
	where, numbers = map[string]int{}, map[string]bool{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue && e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		if e.Kind == unstable.KeyValue {
			noteValue(where, numbers, table, e, data)
			continue
		}
		key, line := keyOf(e, data)
		where[key], table = line, key+"."
	}
	return where, numbers
}

// noteValue notes a key, and those of the inline table that it is set to.
func noteValue(where map[string]int, numbers map[string]bool, table string, e *unstable.Node, data []byte) {
	key, line := keyOf(e, data)
	key = table + key
	where[key] = line
	switch v := e.Value(); v.Kind {
	case unstable.Integer:
		numbers[key] = true
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			noteValue(where, numbers, key+".", it.Node(), data)
		}
	}
}

func keyOf(e *unstable.Node, data []byte) (key string, line int) {
	var parts []string
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if parts == nil {
			line = bytes.Count(data[:n.Raw.Offset], []byte{'\n'}) + 1
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), line
}

// at is where a key is set, or the table that would hold it; mbox.toml, without a
// line, for neither.
func (f *origins) at(key string) place {
	for key != "" {
		if at, ok := f.where[key]; ok {
			return at
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return place{source: &source{path: f.path, name: Name}}
}

// wrong is an error about the value of a key.
func (f *origins) wrong(key, format string, a ...any) error {
	at := f.at(key)
	e := &Error{File: at.path, Line: at.line, Problem: key + ": " + fmt.Sprintf(format, a...)}
	if e.Line > 0 {
		text := strings.TrimRight(strings.Split(string(at.data), "\n")[e.Line-1], "\r")
		e.Excerpt = fmt.Sprintf("%d| %s\n%s| %s", e.Line, text, strings.Repeat(" ", len(fmt.Sprint(e.Line))), strings.Repeat("~", len([]rune(text))))
	}
	return e
}

// wrongSecret is wrong without the line, which may hold a secret.
func (f *origins) wrongSecret(key, format string, a ...any) error {
	err := f.wrong(key, format, a...)
	err.(*Error).Excerpt = ""
	return err
}

// advise adds what helps to an error about a value.
func advise(err error, format string, a ...any) error {
	err.(*Error).Hint = fmt.Sprintf(format, a...)
	return err
}

// quoted shows a word of the file, cut where it is long.
func quoted(word string) string { return fmt.Sprintf("%q", schemas.Sentence(word, 60)) }

// oneOfThese lists what is allowed.
func oneOfThese(known []string) string {
	var words []string
	for _, w := range known {
		words = append(words, cmp.Or(w, `""`))
	}
	return "one of " + strings.Join(words, ", ")
}

// has tells whether a file sets a key.
func (f *origins) has(key string) bool { _, set := f.where[key]; return set }

// mentions tells whether a file sets a key or one below it.
func (f *origins) mentions(key string) bool { return f.has(key) || f.above[key] }

// above are the tables of keys, whether they have a line of their own or not.
func above(where map[string]place) map[string]bool {
	tables := map[string]bool{}
	for key := range where {
		for i := strings.LastIndexByte(key, '.'); i > 0; i = strings.LastIndexByte(key, '.') {
			if key = key[:i]; tables[key] {
				break
			}
			tables[key] = true
		}
	}
	return tables
}

// fill sets every field of a table that no file sets.
func fill[T any](c *File, table string, to, from *T) {
	c.fillValue(table, reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem())
}

func (f *origins) fillValue(key string, to, from reflect.Value) {
	for i := range to.NumField() {
		tag := to.Type().Field(i).Tag.Get("toml")
		if tag == "" {
			continue
		}
		switch field := key + "." + tag; {
		case to.Field(i).Kind() == reflect.Struct:
			f.fillValue(field, to.Field(i), from.Field(i))
		case to.Field(i).Kind() == reflect.Map && f.mentions(field):
		case !f.has(field):
			to.Field(i).Set(from.Field(i))
		}
	}
}
