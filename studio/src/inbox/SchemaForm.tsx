/** A form made of a JSON Schema. The server checks what it gives; this checks what a browser can show at once. */

import Form from "@rjsf/core/lib/components/Form.js"; // the package itself brings its tests' Ajv
import type { RJSFSchema, UiSchema } from "@rjsf/utils";
import { useState } from "react";
import { JsonField } from "./JsonField";
import { fieldsLike, schemaLike } from "./likeness";
import { LIST_BUTTONS } from "./ListButtons";
import { validator } from "./validator";

const UI: UiSchema = { "ui:submitButtonOptions": { norender: true } };

interface SchemaFormProps {
  schema: object;
  value: unknown;
  onChange: (value: unknown) => void;
  isReadOnly: boolean;
}

export default function SchemaForm({ schema, value, onChange, isReadOnly }: SchemaFormProps) {
  const saysNothing = Object.keys(schema).every((key) => key.startsWith("$") && key !== "$ref");
  const [known] = useState(() => (saysNothing ? schemaLike(value) : (schema as RJSFSchema)));
  const [fields] = useState(() => ({ ...UI, ...fieldsLike(value) }));
  if (known === undefined) return <JsonField value={value} onChange={onChange} isReadOnly={isReadOnly} />;
  return (
    <Form
      tagName="div"
      className="schema-form"
      schema={known}
      uiSchema={fields}
      formData={value}
      readonly={isReadOnly}
      validator={validator}
      templates={{ ButtonTemplates: LIST_BUTTONS }}
      showErrorList={false}
      onChange={({ formData }) => onChange(formData)}
    />
  );
}
