package dibs

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"unicode/utf8"
)

// maxKey is the length of the longest key in bytes, the prefix included.
const maxKey = 255

// storeKey checks a key and returns it as the store knows it.
func (c *Config) storeKey(key string) (string, error) {
	full := c.Prefix + key
	switch {
	case key == "":
		return "", fmt.Errorf("%w: the key is empty", ErrInvalidKey)
	case !utf8.ValidString(key):
		return "", fmt.Errorf("%w: %q is not valid UTF-8", ErrInvalidKey, key)
	case len(full) > maxKey && c.Prefix != "":
		return "", fmt.Errorf("%w: %d bytes with the prefix %q, at most %d are possible; it begins %.60q", ErrInvalidKey, len(full), c.Prefix, maxKey, key)
	case len(full) > maxKey:
		return "", fmt.Errorf("%w: %d bytes, at most %d are possible; it begins %.60q", ErrInvalidKey, len(full), maxKey, key)
	}
	return full, nil
}

// Shard returns the name of one of n shards of a key, chosen by a hash of by (an order or customer number, say): work on different
// shards goes on side by side. Exclusion then holds within a shard only. It panics if n < 1.
func Shard(key string, n int, by string) string {
	if n < 1 {
		panic("dibs: Shard: n must be at least 1, not " + strconv.Itoa(n))
	}
	h := fnv.New64a()
	h.Write([]byte(by))
	return key + "/" + strconv.FormatUint(h.Sum64()%uint64(n), 10)
}
