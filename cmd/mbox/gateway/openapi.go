package gateway

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"mbox/mailbox"
	"mbox/schemas"
)

func selfRoutes() []route {
	return []route{{method: "GET", path: "/openapi.json", agents: true, about: "what can be asked for here", gives: map[string]any{}, do: (*call).openapi}}
}

// openapi describes the door (OpenAPI 3.1), from the routes and the types themselves.
func (c *call) openapi() error {
	doc, err := c.door.description()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, doc)
}

// object is a JSON object.
type object = map[string]any

// describer collects the schemas that a description refers to.
type describer struct {
	schemas object
	err     error // the first
}

func (d *Door) describe() (object, error) {
	s := &describer{schemas: object{}}
	paths := object{}
	for _, r := range d.routes() {
		path := strings.ReplaceAll(r.path, "...}", "}")
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		item[strings.ToLower(r.method)] = s.operation(&r)
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "mbox", "version": "1", "description": "A post office for AI agents on one machine: leave tasks, see what becomes of them, follow the ledger."},
		"paths":   paths,
		"components": object{
			"schemas":         s.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "mbox token create NAME --role reader|agent|operator"}},
			"responses": object{"Problem": object{
				"description": "what is wrong, and what helps (RFC 9457)",
				"content":     object{"application/problem+json": object{"schema": s.schema(Problem{})}},
			}},
		},
		"security": []object{{}, {"token": []string{}}},
	}
	return doc, s.err
}

// problems are the statuses that any request may be answered with.
var problems = []int{400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 503}

var pathParam = regexp.MustCompile(`\{([a-z]+)(\.\.\.)?\}`)

func (s *describer) operation(r *route) object {
	params := []object{}
	for _, found := range pathParam.FindAllStringSubmatch(r.path, -1) {
		params = append(params, object{"name": found[1], "in": "path", "required": true, "schema": object{"type": "string"}})
	}
	for _, q := range r.query {
		params = append(params, q.in("query"))
	}
	for _, h := range r.headers {
		params = append(params, h.in("header"))
	}
	words := strings.FieldsFunc(r.path, func(c rune) bool { return !('a' <= c && c <= 'z') })
	op := object{
		"summary": r.about, "operationId": strings.ToLower(r.method) + "_" + strings.Join(words, "_"),
		"parameters": params, "responses": s.responses(r),
	}
	if r.takes != nil {
		op["requestBody"] = object{"required": !r.optional, "content": object{"application/json": object{"schema": s.schema(r.takes)}}}
	}
	return op
}

// in describes a parameter of a query, or a header.
func (p *param) in(place string) object {
	schema := p.form.schema
	if schema == nil {
		schema = object{"type": "string", "minLength": 1}
	}
	if p.many {
		schema = object{"type": "array", "items": schema}
	}
	return object{"name": p.name, "in": place, "description": p.about, "schema": schema}
}

func (s *describer) responses(r *route) object {
	out := object{}
	for _, status := range problems {
		out[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	content := object{}
	for _, kind := range r.kinds {
		content[kind] = object{"schema": object{"type": "string"}}
	}
	if r.gives != nil {
		content["application/json"] = object{"schema": s.schema(r.gives)}
	}
	out[strconv.Itoa(cmp.Or(r.status, http.StatusOK))] = object{"description": r.about, "content": content}
	switch r.path {
	case "/health":
		out["503"] = object{"description": "something is wrong", "content": content}
	case "/mcp":
		out["202"] = object{"description": "a notification was taken"}
	}
	if slices.ContainsFunc(r.headers, func(p param) bool { return p.name == "Range" }) {
		out["206"] = object{"description": "a part of it", "content": content}
		out["416"] = object{"$ref": "#/components/responses/Problem"}
	}
	return out
}

// schema is a reference to the schema of v's type.
func (s *describer) schema(v any) object {
	switch v.(type) {
	case orders:
		s.add("New", "Task", mailbox.Task{})
		return object{"oneOf": []object{{"$ref": inComponents + "NewTask"}, s.schema(Delegated{})}}
	case map[string]any:
		return object{"type": "object"}
	}
	name := reflect.TypeOf(v).Name()
	s.add("", name, v)
	return object{"$ref": inComponents + name}
}

const inComponents = "#/components/schemas/"

// add puts a type's schema, and those that it refers to, among the others, with prefix
// before their names. One with a prefix is for what is sent.
func (s *describer) add(prefix, name string, v any) {
	if s.schemas[prefix+name] != nil {
		return
	}
	data, err := schemas.Of(v)
	var schema object
	if err == nil {
		err = json.Unmarshal(data, &schema)
	}
	if err != nil {
		s.err = err
		return
	}
	definitions, _ := schema["$defs"].(object)
	delete(schema, "$defs")
	delete(schema, "$schema")
	s.put(prefix, name, schema)
	for _, def := range slices.Sorted(maps.Keys(definitions)) {
		s.put(prefix, def, definitions[def])
	}
}

// put refuses two types of one name: a reference would mean either.
func (s *describer) put(prefix, name string, schema any) {
	schema = lifted(prefix, schema)
	if of, ok := schema.(object); ok && prefix != "" {
		sendable(of, needed(name))
	}
	if had := s.schemas[prefix+name]; had != nil && !reflect.DeepEqual(had, schema) {
		s.err = fmt.Errorf("openapi.json: two types are called %s", prefix+name)
	}
	s.schemas[prefix+name] = schema
}

// needed are the members without which the types of what is sent mean nothing.
func needed(of string) []any {
	switch of {
	case "Task":
		return []any{"task"}
	case "Request":
		return []any{"title"}
	case "Action":
		return []any{"name"}
	}
	return nil
}

// sendable makes of a type's schema that of what is sent for it. Other members than those
// that are needed may be left out, or be null, and a word may be "": that is the same. A
// time is one, or is left out.
func sendable(schema object, needed []any) {
	delete(schema, "required")
	if len(needed) > 0 {
		schema["required"] = needed
	}
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		of := property.(object)
		if name == "context" || name == "labels" { // shown they may be texts, where they are cut
			of["type"] = []any{"object", "null"}
		}
		_, either := of["oneOf"]
		_, many := of["type"].([]any)
		if either || many || slices.Contains(needed, any(name)) || of["format"] == "date-time" {
			continue
		}
		if words, ok := of["enum"].([]any); ok && of["type"] == "string" {
			of["enum"] = append(words, "")
		}
		properties[name] = object{"anyOf": []any{of, object{"type": "null"}}}
	}
}

// lifted is a schema whose references lead to the components of the description. What
// may be anything says so: some readers take it to exclude null.
func lifted(prefix string, v any) any {
	switch v := v.(type) {
	case object:
		for key, member := range v {
			if ref, ok := member.(string); ok && key == "$ref" {
				v[key] = strings.Replace(ref, "#/$defs/", inComponents+prefix, 1)
			} else {
				v[key] = lifted(prefix, member)
			}
			if properties, ok := v[key].(object); ok && key == "properties" {
				anything(properties)
			}
		}
	case []any:
		for i := range v {
			v[i] = lifted(prefix, v[i])
		}
	}
	return v
}

// anything writes out the types of those properties that may have any.
func anything(properties object) {
	for name, property := range properties {
		schema, ok := property.(object)
		if property == true {
			schema, ok = object{}, true
			properties[name] = schema
		}
		if ok && !slices.ContainsFunc([]string{"type", "$ref", "oneOf", "anyOf", "enum"}, func(k string) bool { return schema[k] != nil }) {
			schema["type"] = []any{"null", "boolean", "object", "array", "number", "string"}
		}
	}
}
