package record

import (
	"fmt"
	"strings"

	"mbox/schemas"
)

const maxOptions = 100

// number is what stands before an item of a list, and indent before its further lines, as
// markdown wants it, so that none can pass for another item.
func number(i int) (number, indent string) {
	number = fmt.Sprintf("%d. ", i+1)
	return number, strings.Repeat(" ", len(number))
}

// normalItem makes a text fit for a list: no line of it is made of spaces.
func normalItem(text string) string {
	all := strings.Split(oneNewline(text), "\n")
	for i, line := range all {
		if isBlank(line) {
			all[i] = ""
		}
	}
	return strings.TrimSpace(strings.Join(all, "\n"))
}

// printList makes the items normal, checks them, and prints them. If none has text, the
// list is "".
func printList(path string, list *[]string) (string, error) {
	var items, printed []string
	for _, item := range *list {
		items = append(items, normalItem(item))
	}
	*list = items
	size := len(strings.Join(items, ""))
	if len(items) > maxOptions {
		return "", wrong(schemas.CodeTooLong, path, fmt.Sprintf("has %d items", len(items)), fmt.Sprintf("at most %d", maxOptions))
	}
	for i, item := range items {
		if item == "" && size > 0 {
			return "", wrong(schemas.CodeMissingField, path, fmt.Sprintf("item %d has no text", i+1), "text")
		}
		marked, err := mark(itemPath(path, i), item)
		if err != nil {
			return "", err
		}
		before, indent := number(i)
		for line := range strings.SplitSeq(marked, "\n") {
			if line != "" {
				line = before + line
			}
			printed, before = append(printed, line), indent
		}
	}
	if size == 0 {
		return "", nil
	}
	return strings.Join(printed, "\n"), checkSize(path, size)
}

func itemPath(path string, i int) string { return fmt.Sprintf("%s, option %d", path, i+1) }

// parseList is the inverse of printList.
func parseList(path, text string) (items []string, err error) {
	var marked [][]string // the lines of each item
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		last := len(marked) - 1
		next, nextIndent := number(last + 1)
		rest, goesOn := strings.CutPrefix(line, indent)
		switch first, begins := strings.CutPrefix(line, next); {
		case begins:
			marked, indent = append(marked, []string{first}), nextIndent
		case last < 0 && isBlank(line):
		case isBlank(line):
			marked[last] = append(marked[last], "")
		case last >= 0 && goesOn:
			marked[last] = append(marked[last], rest)
		default:
			want := fmt.Sprintf("%q, or %d spaces before a line that goes on", next+"Option: pros/cons", max(len(indent), 3))
			return nil, wrong(schemas.CodeBadValue, path, fmt.Sprintf("line %d of this text is %s", i+1, schemas.Quote(line)), want)
		}
	}
	items = make([]string, len(marked))
	for i := 0; i < len(marked) && err == nil; i++ {
		items[i], err = unmark(itemPath(path, i), strings.Join(marked[i], "\n"))
	}
	return items, err
}
