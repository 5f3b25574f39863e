package brain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ollama/ollama/api"
)

const (
	embedLimit    = time.Minute // for the vectors of some texts
	mostDimension = 8192
)

// Model is the model as the options name it.
func (o *Ollama) Model() string { return o.o.Model }

// Embed returns a vector for each text, by the server's /api/embed. What is too long for
// the model is cut at its end. nomic-embed-text is told what is a question.
func (o *Ollama) Embed(ctx context.Context, question bool, texts ...string) ([][]float32, error) {
	if strings.Contains(o.o.Model, "nomic-embed-text") {
		texts = marked(question, texts)
	}
	asked, cancel := context.WithTimeout(ctx, embedLimit)
	defer cancel()
	seen := &witness{}
	answer, err := o.api.Embed(seen.watch(asked), &api.EmbedRequest{Model: o.o.Model, Input: texts, KeepAlive: o.keep})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, o.fault(err, o.o.Model, seen).err
	}
	return answer.Embeddings, checkVectors(answer.Embeddings, len(texts))
}

// marked puts before each text what nomic-embed-text was taught to expect there.
func marked(question bool, texts []string) (out []string) {
	for _, text := range texts {
		if question {
			out = append(out, "search_query: "+text)
		} else {
			out = append(out, "search_document: "+text)
		}
	}
	return out
}

// checkVectors wants n vectors of one length, of numbers.
func checkVectors(all [][]float32, n int) error {
	if len(all) != n {
		return fmt.Errorf("ollama: %d embeddings for %d texts", len(all), n)
	}
	for _, v := range all {
		if len(v) == 0 || len(v) > mostDimension || len(v) != len(all[0]) {
			return fmt.Errorf("ollama: an embedding has %d dimensions", len(v))
		}
		for _, x := range v {
			if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
				return errors.New("ollama: an embedding has something that is no number")
			}
		}
	}
	return nil
}
