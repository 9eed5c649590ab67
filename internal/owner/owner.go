// Package owner makes owners: random names, one for each acquisition from the store.
package owner

import (
	"crypto/rand"
	"encoding/base32"
	"strings"

	"github.com/dibs-go/dibs/dibsdriver"
)

// New returns an owner that nobody else has, in this process or in another: host and process id do not tell two
// containers apart, 130 random bits do.
func New() string {
	var b [17]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return strings.ToLower(base32.HexEncoding.EncodeToString(b[:]))[:dibsdriver.OwnerLen]
}
