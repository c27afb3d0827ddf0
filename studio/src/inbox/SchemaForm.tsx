/** A form made of a JSON Schema. The server checks what it gives; this checks what a browser can show at once. */

import Form from "@rjsf/core/lib/components/Form.js"; // the package itself brings its tests' Ajv
import type { RJSFSchema, UiSchema } from "@rjsf/utils";
import { useMemo } from "react";
import { Alternatives, AnythingField, BUTTONS, ListItem } from "../form/parts";
import { type Schema, shownSchema } from "../form/shownSchema";
import "../form/form.css";
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
  const shown = useMemo(() => shownSchema(schema as Schema), [schema]);
  return (
    <Form
      tagName="div"
      className="schema-form"
      schema={shown as RJSFSchema}
      uiSchema={UI}
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
