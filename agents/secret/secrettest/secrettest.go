// Package secrettest looks for secrets in what tests leave behind. A secret of a test has
// a canary in it: a word that stands nowhere else.
package secrettest

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Canary is a word that no other test has.
func Canary() string {
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // it never fails
	return "canary" + hex.EncodeToString(drawn[:])
}

// Find returns the regular files in and below a folder that hold a canary, by path: in
// clear, in hexadecimal or base64, wherever it begins there, also in archives of zstd and
// gzip. Those of given are left out. What goes away meanwhile holds none.
func Find(dir, canary string, given ...string) (found []string, err error) {
	forms := formsOf(canary)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !d.Type().IsRegular() || slices.Contains(given, path):
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if holds(append(data, unpacked(data)...), forms) {
			found = append(found, path)
		}
		return err
	})
	return found, err
}

func holds(data []byte, forms [][]byte) bool {
	return slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(data, form) })
}

// formsOf are the bytes by which a word is known. Base64 has another one for each of the
// three places where the word can begin, without the letters that what is beside it changes.
func formsOf(word string) [][]byte {
	forms := [][]byte{[]byte(word), []byte(hex.EncodeToString([]byte(word))), fmt.Appendf(nil, "%X", word)}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString(append(make([]byte, before), word...))
		first := []int{0, 2, 3}[before]
		forms = append(forms, []byte(text[first:(before+len(word))*8/6]))
	}
	return forms // of letters and digits: those of base64 for addresses are the same
}

// unpacked is what an archive holds, as far as it can be read; nothing of other files.
func unpacked(data []byte) []byte {
	var from io.Reader
	switch {
	case bytes.HasPrefix(data, []byte("\x28\xb5\x2f\xfd")):
		z, err := zstd.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil
		}
		defer z.Close()
		from = z
	case bytes.HasPrefix(data, []byte("\x1f\x8b")):
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil
		}
		from = z
	default:
		return nil
	}
	all, _ := io.ReadAll(from) // of what is cut short the beginning
	return all
}
