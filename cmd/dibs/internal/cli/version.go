package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by releases, by the linker's -X; else the build information has it.
var version = ""

type versionJSON struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return outJSON(cmd, thisVersion())
			}
			return showVersion(cmd)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showVersion(cmd *cobra.Command) error {
	v := thisVersion()
	s := "dibs " + v.Version
	if v.Revision != "" {
		s += fmt.Sprintf(" (%.12s)", v.Revision)
	}
	return out(cmd.OutOrStdout(), fmt.Sprintf("%s %s %s\n", s, v.Go, v.Platform))
}

func thisVersion() versionJSON {
	v := versionJSON{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
