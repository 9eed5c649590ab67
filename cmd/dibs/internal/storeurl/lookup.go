package storeurl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
)

// EnvVar names the store for all commands.
const EnvVar = "DIBS_STORE"

// systemFile names the store for all users of a machine. Packagers may set another by the linker's -X.
var systemFile = "/etc/dibs/store"

// SystemFile is the file that is read where nothing else names a store.
func SystemFile() string { return systemFile }

// Flags are what the command line says of the store.
type Flags struct {
	URL, File string
}

// Find looks for the store's URL: the flag, the environment, the file of the flag, the machine's file, and at last a file of
// this user alone. Unread is the --store-file that was given but is not read, because an earlier place names a store.
func Find(f Flags) (s *Store, unread string, err error) {
	env := os.Getenv(EnvVar)
	switch {
	case f.URL != "":
		s, err = parseWord(f.URL, "--store")
	case env != "":
		s, err = parseWord(env, EnvVar)
	case f.File != "":
		s, err = fromFile(f.File)
	default:
		s, err = fromFile(systemFile)
		// A file that is there and cannot be read is an error: to go on would make a private lock of the machine's.
		if errors.Is(err, fs.ErrNotExist) {
			s, err = fallback()
		}
	}
	if f.File != "" && (f.URL != "" || env != "") {
		unread = f.File
	}
	if err != nil {
		return nil, unread, exit.With(exit.Usage, err)
	}
	return s, unread, nil
}

// parseWord reads a URL that was given as it stands. White space around it is nobody's intention: it comes from files with other line
// ends, and with it a path would lead to another file.
func parseWord(word, from string) (*Store, error) {
	raw := strings.TrimSpace(word)
	if raw == "" {
		return nil, exit.Errorf(exit.Usage, "%s holds nothing but white space: give it a value, or leave it out", from)
	}
	return Parse(raw, from, false)
}

// fromFile reads a file that holds one URL; empty lines and lines that begin with # do not count.
func fromFile(name string) (*Store, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, exit.Errorf(exit.Usage, "the store's file cannot be read: %w", err)
	}
	var urls []string
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			urls = append(urls, line)
		}
	}
	if len(urls) != 1 {
		return nil, exit.Errorf(exit.Usage, "%s must hold one store's URL on a line of its own, and holds %d", name, len(urls))
	}
	if strings.Contains(urls[0], " #") || strings.Contains(urls[0], "\t#") {
		return nil, exit.Errorf(exit.Usage, "%s has a comment behind the store's URL: give it a line of its own", name)
	}
	return Parse(urls[0], name, true)
}

// fallback is a file of this user on this machine.
func fallback() (*Store, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, the specification says
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return nil, exit.Errorf(exit.Usage, "nothing names a store, and without HOME there is no place for a file: give --store URL, or put the URL into %s", systemFile)
		}
		state = filepath.Join(home, ".local", "state")
	}
	folder := filepath.Join(state, "dibs")
	s, err := Parse("sqlite:"+filepath.Join(folder, "dibs.db"), "", false)
	if err != nil {
		return nil, err
	}
	s.Default, s.folder = true, folder
	return s, nil
}
