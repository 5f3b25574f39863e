package qdranttest

import (
	"slices"
	"strings"
	"unicode"

	client "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fits tells whether a point meets a filter: all of must, one of should, none of must not.
func (c *collection) fits(of *client.Filter, id string, p *point) (bool, error) {
	if of.GetMinShould() != nil {
		return false, wrong("the tests know no min_should")
	}
	fits, one := true, len(of.GetShould()) == 0
	for _, part := range []struct {
		all []*client.Condition
		add func(yes bool)
	}{
		{of.GetMust(), func(yes bool) { fits = fits && yes }},
		{of.GetShould(), func(yes bool) { one = one || yes }},
		{of.GetMustNot(), func(yes bool) { fits = fits && !yes }},
	} {
		for _, condition := range part.all {
			yes, err := c.meets(condition, id, p)
			if err != nil {
				return false, err
			}
			part.add(yes)
		}
	}
	return fits && one, nil
}

func (c *collection) meets(condition *client.Condition, id string, p *point) (bool, error) {
	if ids := condition.GetHasId(); ids != nil {
		in := false
		for _, one := range ids.GetHasId() {
			text, err := idOf(one)
			if err != nil {
				return false, err
			}
			in = in || text == id
		}
		return in, nil
	}
	field := condition.GetField()
	index := c.indexes[field.GetKey()]
	value := p.payload[field.GetKey()].GetStringValue()
	switch match := field.GetMatch().GetMatchValue().(type) {
	case *client.Match_Keyword:
		if index.GetKeywordIndexParams() == nil {
			return false, unindexed(field.GetKey())
		}
		return value == match.Keyword, nil
	case *client.Match_Text:
		if index.GetTextIndexParams() == nil {
			return false, unindexed(field.GetKey())
		}
		return hasAll(index.GetTextIndexParams(), value, match.Text)
	}
	return false, wrong("the tests know no condition %v", condition)
}

func unindexed(field string) error {
	return status.Errorf(codes.InvalidArgument, "Bad request: Index required but not found for %q", field)
}

// hasAll tells whether a text has all words of a query, as the tokenizer prefix has them:
// a word of the text has each beginning of it that is not too long, the one of the query
// none.
func hasAll(index *client.TextIndexParams, text, query string) (bool, error) {
	if index.GetTokenizer() != client.TokenizerType_Prefix || !index.GetLowercase() {
		return false, wrong("the tests know the tokenizer prefix with lowercase alone")
	}
	words, most := tokens(text), int(index.GetMaxTokenLen())
	for _, word := range tokens(query) {
		if len([]rune(word)) > most || !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, word) }) {
			return false, nil
		}
	}
	return len(tokens(query)) > 0, nil
}

func tokens(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}
