// Typed lint: what the type checker alone does not see. Formatting and import order are biome's.
import tseslint from "typescript-eslint";

/** Everywhere in src and demo. */
const BANNED_SYNTAX = [
  { selector: "ExportAllDeclaration", message: "Name what is exported." },
  { selector: "ExportDefaultDeclaration", message: "Named exports only." },
  { selector: "TSEnumDeclaration", message: "Use a string union." },
  {
    selector: "ImportDeclaration[source.value='zod'] > ImportSpecifier",
    message: "import * as z: of a named import the bundle cannot leave out zod's languages, half a megabyte.",
  },
  {
    selector: "MemberExpression[object.name='process'][property.name='env']",
    message: "Only config.ts reads the environment.",
  },
];

/** A path on a mount: any of these calls waits in the kernel, and the main thread with it, for as long as its driver does not answer. */
const READS_OF_MOUNTS = [
  "Identifier[name=/^(mount|staging|target)Path$/]",
  "MemberExpression[property.name=/^(mount|staging|target)Path$/]",
].map((path) => ({
  selector: `CallExpression[callee.name=/^(access|exists|lstat|open|opendir|readdir|readFile|realpath|stat|statfs)Sync$/] > ${path}.arguments`,
  message: "Read mounts through MountReader: this waits in the kernel, on the main thread.",
}));

export default tseslint.config(
  { ignores: ["node_modules/", "dist/", "src/contracts/gen/", "coverage/", "**/*.mjs"] },
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      complexity: ["error", 20],
      "max-lines": ["error", { max: 300, skipBlankLines: true, skipComments: true }],
      // A factory that closes over state counts with all of its inner functions: one that is longer has two subjects, or hides its state.
      "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
      "no-console": "error",
      eqeqeq: "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/require-await": "off",
      // Ports are object literals of arrow functions: there is no `this` to lose.
      "@typescript-eslint/unbound-method": "off",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-restricted-syntax": ["error", ...BANNED_SYNTAX],
    },
  },
  {
    files: ["src/agent/**"],
    ignores: ["src/agent/storage/in-threads/**"],
    rules: { "no-restricted-syntax": ["error", ...BANNED_SYNTAX, ...READS_OF_MOUNTS] },
  },
  {
    // It speaks JSON of any shape: what is written into messages is checked where it comes in.
    files: ["demo/control-plane/**"],
    rules: { "@typescript-eslint/no-base-to-string": "off", "@typescript-eslint/restrict-template-expressions": "off" },
  },
  { files: ["{src,demo}/**/config.ts", "test/**", "bench/**", "scripts/**"], rules: { "no-restricted-syntax": "off" } },
  {
    // What a cast hides is found neither by the checker nor by the case: test/fakes/double-of.ts and served-client.ts stand in for ports.
    files: ["test/**", "bench/**"],
    rules: {
      "no-restricted-syntax": [
        "error",
        {
          selector: "TSAsExpression > TSNeverKeyword",
          message: "Build a real one or a double; where the wrong type is the case, disable this line and say so.",
        },
        {
          selector: "TSAsExpression > TSAsExpression.expression > TSUnknownKeyword.typeAnnotation",
          message: "Build a real one or a double; where the wrong type is the case, disable this line and say so.",
        },
      ],
    },
  },
  {
    files: ["test/**", "bench/**"],
    rules: { "max-lines-per-function": "off", "max-lines": "off", "no-console": "off" },
  },
);
