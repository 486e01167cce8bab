// Typed lint: what the type checker alone does not see. Formatting and import order are biome's.
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules/", "dist/", "src/gen/", "coverage/", "**/*.mjs"] },
  ...tseslint.configs.recommendedTypeChecked,
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      complexity: ["error", 20],
      "max-lines": ["error", { max: 400, skipBlankLines: true, skipComments: true }],
      // A factory that closes over state counts with all of its inner functions; a plain function stays under 60.
      "max-lines-per-function": ["error", { max: 120, skipBlankLines: true, skipComments: true }],
      "no-console": "error",
      eqeqeq: "error",
      "@typescript-eslint/no-floating-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/require-await": "off",
      // Ports are object literals of arrow functions: there is no `this` to lose.
      "@typescript-eslint/unbound-method": "off",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-restricted-syntax": [
        "error",
        { selector: "ExportAllDeclaration", message: "Name what is exported." },
        { selector: "ExportDefaultDeclaration", message: "Named exports only." },
        { selector: "TSEnumDeclaration", message: "Use a string union." },
        {
          selector: "MemberExpression[object.name='process'][property.name='env']",
          message: "Only config.ts reads the environment.",
        },
      ],
    },
  },
  {
    // It speaks JSON of any shape: what is written into messages is checked where it comes in.
    files: ["demo/control-plane/**"],
    rules: { "@typescript-eslint/no-base-to-string": "off", "@typescript-eslint/restrict-template-expressions": "off" },
  },
  { files: ["{src,demo}/**/config.ts", "test/**", "bench/**", "scripts/**"], rules: { "no-restricted-syntax": "off" } },
  {
    files: ["test/**", "bench/**"],
    rules: { "max-lines-per-function": "off", "max-lines": "off", "no-console": "off" },
  },
);
