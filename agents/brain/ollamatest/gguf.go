package ollamatest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// Metadata value types and the one tensor type used here, of the GGUF format,
// version 3 (github.com/ggml-org/ggml, docs/gguf.md).
const (
	typeU32, typeF32, typeBool, typeText, typeArray, typeI32 = 4, 6, 7, 8, 9, 5

	tensorF32 = 0
	alignment = 32
)

type tensor struct {
	name string
	dims []int // fastest-varying first: a matrix is [inputs, outputs]
	data []float32
}

// gguf collects metadata, kept in the order added, and tensors.
type gguf struct {
	meta    bytes.Buffer
	entries uint64
	tensors []tensor
}

func put(b *bytes.Buffer, v any) { _ = binary.Write(b, binary.LittleEndian, v) } // a buffer takes all

func putText(b *bytes.Buffer, s string) {
	put(b, uint64(len(s)))
	b.WriteString(s)
}

func (g *gguf) key(k string, typ uint32) {
	putText(&g.meta, k)
	put(&g.meta, typ)
	g.entries++
}

func (g *gguf) array(k string, typ uint32, n int) {
	g.key(k, typeArray)
	put(&g.meta, typ)
	put(&g.meta, uint64(n))
}

// set adds a metadata entry. Every count and token id of a header is a uint32.
func (g *gguf) set(k string, v any) {
	switch v := v.(type) {
	case int:
		g.key(k, typeU32)
		put(&g.meta, uint32(v))
	case float64:
		g.key(k, typeF32)
		put(&g.meta, float32(v))
	case bool:
		g.key(k, typeBool)
		put(&g.meta, v)
	case string:
		g.key(k, typeText)
		putText(&g.meta, v)
	case []string:
		g.array(k, typeText, len(v))
		for _, s := range v {
			putText(&g.meta, s)
		}
	case []float32:
		g.array(k, typeF32, len(v))
		put(&g.meta, v)
	case []int32:
		g.array(k, typeI32, len(v))
		put(&g.meta, v)
	default:
		panic(fmt.Sprintf("gguf: key %s has unsupported type %T", k, v))
	}
}

// add appends a tensor whose element (in, out) is f(in, out); a nil f gives
// zeros. A vector has only the first index.
func (g *gguf) add(name string, f func(in, out int) float64, dims ...int) {
	n, rows := dims[0], 1
	if len(dims) > 1 {
		rows = dims[1]
	}
	data := make([]float32, n*rows)
	if f != nil {
		for r := range rows {
			for i := range n {
				data[r*n+i] = float32(f(i, r))
			}
		}
	}
	g.tensors = append(g.tensors, tensor{name, dims, data})
}

func padding(n int) int { return (alignment - n%alignment) % alignment }

// bytes is the file: header, metadata, the tensors' table, and their data, each
// padded to the alignment.
func (g *gguf) bytes() []byte {
	var b bytes.Buffer
	b.WriteString("GGUF")
	put(&b, uint32(3))
	put(&b, uint64(len(g.tensors)))
	put(&b, g.entries)
	b.Write(g.meta.Bytes())
	offset := 0
	for _, t := range g.tensors {
		putText(&b, t.name)
		put(&b, uint32(len(t.dims)))
		for _, d := range t.dims {
			put(&b, uint64(d))
		}
		put(&b, uint32(tensorF32))
		put(&b, uint64(offset))
		offset += 4*len(t.data) + padding(4*len(t.data))
	}
	b.Write(make([]byte, padding(b.Len())))
	for _, t := range g.tensors {
		raw := make([]byte, 4*len(t.data), 4*len(t.data)+alignment)
		for i, x := range t.data {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
		}
		b.Write(raw)
		b.Write(make([]byte, padding(len(raw))))
	}
	return b.Bytes()
}
