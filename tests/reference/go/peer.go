// Command peer answers with what Go's golang.org/x/mod/sumdb packages say about notes and trees.
//
// It reads one JSON list of questions from standard input and writes one JSON list of answers. Cosignatures, which
// those packages do not have, are checked and made here with crypto/ed25519, from the C2SP page alone.
package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type question struct {
	Do    string
	Note  string   // open, resign
	Keys  []string // open: verifier keys
	Text  string   // sign
	Key   string   // sign: signer key
	Time  uint64   // sign, by a cosigner
	Size1 int64    // tree, record
	Size2 int64
	Root1 []byte
	Root2 []byte
	Proof [][]byte
	Line  []byte // record
	Index int64
}

type answer struct {
	Error      string
	Text       string
	Names      []string // keys whose signatures were verified
	Unverified int
	Note       string
}

// cosigner is a key of type 0x04.
type cosigner struct {
	name string
	hash uint32
	pub  ed25519.PublicKey
	key  ed25519.PrivateKey
	time uint64
}

func (c *cosigner) Name() string    { return c.name }
func (c *cosigner) KeyHash() uint32 { return c.hash }

func message(time uint64, text []byte) []byte {
	return append([]byte(fmt.Sprintf("cosignature/v1\ntime %d\n", time)), text...)
}

func (c *cosigner) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	return ed25519.Verify(c.pub, message(binary.BigEndian.Uint64(sig), text), sig[8:])
}

func (c *cosigner) Sign(text []byte) ([]byte, error) {
	sig := binary.BigEndian.AppendUint64(nil, c.time)
	return append(sig, ed25519.Sign(c.key, message(c.time, text))...), nil
}

func newCosigner(name string, pub ed25519.PublicKey) *cosigner {
	sum := sha256.Sum256(append([]byte(name+"\n\x04"), pub...))
	return &cosigner{name: name, hash: binary.BigEndian.Uint32(sum[:4]), pub: pub}
}

func verifier(vkey string) (note.Verifier, error) {
	name, rest, _ := strings.Cut(vkey, "+")
	hash, key64, _ := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.DecodeString(key64)
	if err != nil || len(key) != 33 || key[0] != 4 {
		return note.NewVerifier(vkey)
	}
	c := newCosigner(name, key[1:])
	if fmt.Sprintf("%08x", c.hash) != hash {
		return nil, errors.New("cosigner key hash does not match")
	}
	return c, nil
}

func signer(q question) (note.Signer, error) {
	rest := strings.TrimPrefix(q.Key, "PRIVATE+KEY+")
	name, rest, _ := strings.Cut(rest, "+")
	_, key64, _ := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.DecodeString(key64)
	if err != nil || len(key) != 33 || key[0] != 4 {
		return note.NewSigner(q.Key)
	}
	private := ed25519.NewKeyFromSeed(key[1:])
	c := newCosigner(name, private.Public().(ed25519.PublicKey))
	c.key, c.time = private, q.Time
	return c, nil
}

func hashes(list [][]byte) []tlog.Hash {
	out := make([]tlog.Hash, len(list))
	for i, h := range list {
		out[i] = hash(h)
	}
	return out
}

func hash(b []byte) (h tlog.Hash) {
	if copy(h[:], b) != len(h) {
		panic("not a hash")
	}
	return h
}

func reply(q question) (a answer, err error) {
	switch q.Do {
	case "open":
		var known []note.Verifier
		for _, vkey := range q.Keys {
			v, err := verifier(vkey)
			if err != nil {
				return a, err
			}
			known = append(known, v)
		}
		n, err := note.Open([]byte(q.Note), note.VerifierList(known...))
		if err != nil {
			return a, err
		}
		a.Text, a.Unverified = n.Text, len(n.UnverifiedSigs)
		for _, sig := range n.Sigs {
			a.Names = append(a.Names, sig.Name)
		}
		return a, nil
	case "sign":
		s, err := signer(q)
		if err != nil {
			return a, err
		}
		signed, err := note.Sign(&note.Note{Text: q.Text}, s)
		a.Note = string(signed)
		return a, err
	case "tree":
		return a, tlog.CheckTree(hashes(q.Proof), q.Size2, hash(q.Root2), q.Size1, hash(q.Root1))
	case "record":
		return a, tlog.CheckRecord(hashes(q.Proof), q.Size2, hash(q.Root2), q.Index, tlog.RecordHash(q.Line))
	}
	return a, errors.New("unknown question")
}

func main() {
	var questions []question
	in := new(bytes.Buffer)
	if _, err := in.ReadFrom(os.Stdin); err != nil {
		panic(err)
	}
	if err := json.Unmarshal(in.Bytes(), &questions); err != nil {
		panic(err)
	}
	answers := []answer{}
	for _, q := range questions {
		a, err := reply(q)
		if err != nil {
			a.Error = err.Error()
		}
		answers = append(answers, a)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		panic(err)
	}
}
