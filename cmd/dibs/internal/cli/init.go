package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dibs-go/dibs"
	"github.com/dibs-go/dibs/cmd/dibs/internal/exit"
	"github.com/dibs-go/dibs/cmd/dibs/internal/storeurl"
	"github.com/dibs-go/dibs/dibsdriver"
)

// createLimit bounds how long each request may take: others may be creating the same tables at the moment, or have them locked.
const createLimit = 15 * time.Second

func newInit() *cobra.Command {
	var store storeFlags
	var show bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the store's tables",
		Long: `Makes the tables that the store needs, and checks that it can be used, with each right that is needed. Tables that are there stay as they
are. SQLite makes its tables by itself, so there this is only a check.

With --print the statements are printed and nothing is done, not even a connection made: for those who run them with their own tools.

MySQL and MariaDB: who runs dibs init needs CREATE, SELECT, INSERT, UPDATE and DELETE on the database. All other commands, and a dibs init
that finds the tables, need no more than

  GRANT SELECT, INSERT, UPDATE, DELETE ON app.dibs_leases TO 'app'@'%';
  GRANT SELECT, INSERT, UPDATE, DELETE ON app.dibs_meta TO 'app'@'%';

The third table, dibs_rows, is for programs that use row locks (dibsmysql.Rows); they need SELECT, INSERT and UPDATE on it. Where it is missing, it
is made, or the line that says the store is ready says also that it could not be.`,
		Example: `  dibs init --store-file /etc/dibs/admin-store
  dibs init --print --store mysql://app@db.example.com/app | mysql app`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if show {
				s, err := store.find()
				if err != nil {
					return err
				}
				return out(cmd.OutOrStdout(), s.Schema())
			}
			o, err := store.open(&dibs.Config{RequestTimeout: createLimit})
			if err != nil {
				return err
			}
			defer o.close(closeLimit)
			if err := ready(cmd.Context(), o); err != nil {
				return o.fail(err)
			}
			word := o.Name + " is ready"
			if maker, can := o.driver.(storeurl.Maker); can {
				if lacks := complete(cmd.Context(), maker); lacks != "" {
					word += "; " + o.Words(lacks)
				}
			}
			return out(cmd.OutOrStdout(), exit.Printable(word)+"\n")
		},
	}
	store.add(cmd.Flags())
	cmd.Flags().BoolVar(&show, "print", false, "print the statements, and do nothing")
	return cmd
}

// ready makes the tables where the store does not do so by itself, and checks that it can be used.
func ready(ctx context.Context, o *opened) error {
	err := o.Ping(ctx)
	maker, can := o.driver.(storeurl.Maker)
	if err == nil || !can || !errors.Is(err, dibsdriver.ErrRefused) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	return maker.Make(ctx, err)
}

func complete(ctx context.Context, maker storeurl.Maker) string {
	ctx, cancel := context.WithTimeout(ctx, createLimit)
	defer cancel()
	return maker.Complete(ctx)
}
