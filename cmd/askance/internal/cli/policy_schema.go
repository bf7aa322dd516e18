package cli

import (
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/permission"
)

func newPolicySchemaCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of rule files, for editors",
		Long: `Prints the JSON Schema of rule files. An editor that knows it completes keys, shows
what they mean and marks what is misspelled. It knows the shape of a file alone: the
conditions, and whether tools exist, are for askance policy lint.`,
		Example: `  askance policy schema > policy.schema.json
  # first line of a rule file, for editors with the YAML language server:
  # yaml-language-server: $schema=./policy.schema.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.out.Write(permission.EditorSchema())
			return err
		},
	}
}
