package memory

import (
	"context"
	"errors"
)

var (
	// ErrModel: the vectors of a store are of another model than the one that is asked now.
	ErrModel = errors.New("the embeddings are of another model")
	// ErrNoModel: the store has no embeddings.
	ErrNoModel = errors.New("it finds by words alone")
)

// Embedder makes vectors of texts: those of texts that mean the same are near.
type Embedder interface {
	// Model names the model. Vectors of different models cannot be compared.
	Model() string
	// Embed returns one vector for each text, all of one length. question tells that the
	// texts are queries, and not what is looked for.
	Embed(ctx context.Context, question bool, texts ...string) ([][]float32, error)
}
