/** A form made from a JSON Schema. The server checks its value; this checks as much as a browser can show at once. */

import Form from "@rjsf/core/lib/components/Form.js"; // the package itself brings its tests' Ajv
import type { RJSFSchema, UiSchema } from "@rjsf/utils";
import { useMemo, useState } from "react";
import { Alternatives, AnythingField, BUTTONS, ListItem } from "../form/parts";
import { fitsForm } from "../form/fits";
import { type Schema, shownSchema } from "../form/shownSchema";
import "../form/form.css";
import { JsonValue } from "./JsonValue";
import { fieldsLike, schemaLike } from "./likeness";
import { validator } from "./validator";

const UI: UiSchema = { "ui:submitButtonOptions": { norender: true } };
const FIELDS = { FallbackField: AnythingField };
const TEMPLATES = {
  ButtonTemplates: BUTTONS,
  ArrayFieldItemTemplate: ListItem,
  MultiSchemaFieldTemplate: Alternatives,
};

interface SchemaFormProps {
  schema: object;
  value: unknown;
  onChange: (value: unknown) => void;
  isReadOnly: boolean;
}

export default function SchemaForm({ schema, value, onChange, isReadOnly }: SchemaFormProps) {
  const saysNothing = Object.keys(schema).every((key) => key.startsWith("$") && key !== "$ref");
  const shown = useMemo(() => shownSchema(schema as Schema) as RJSFSchema, [schema]);
  const [alike] = useState(() => (saysNothing ? schemaLike(value) : undefined));
  const [fields] = useState(() => ({ ...UI, ...fieldsLike(value) }));
  const [fits] = useState(() => fitsForm(schema as Schema, value));
  if (!fits || (saysNothing && alike === undefined))
    return <JsonValue value={value} onChange={onChange} isReadOnly={isReadOnly} />;
  return (
    <Form
      tagName="div"
      className="schema-form"
      schema={alike ?? shown}
      uiSchema={fields}
      fields={FIELDS}
      templates={TEMPLATES}
      formData={value}
      readonly={isReadOnly}
      validator={validator}
      showErrorList={false}
      onChange={({ formData }) => onChange(formData)}
    />
  );
}
