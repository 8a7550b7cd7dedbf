import pytest

from twofold.engine.tool_formats import HERMES, LLAMA, MISTRAL, format_of


@pytest.mark.parametrize(
    ("template", "form"),
    [
        ("{% if tools %}<tool_call>\n{...}\n</tool_call>{% endif %}", HERMES),
        ("{{ '[TOOL_CALLS]' }}", MISTRAL),
        ("{{ '<|python_tag|>' }}", LLAMA),
        ("""{{ '{"name": "x", "parameters": {}}' }}{% if role == "ipython" %}""", LLAMA),
        ("<tool_call>\n<function=f>", None),
        ("{{ messages }}", None),
    ],
)
def test_the_template_shows_the_format(template, form):
    assert format_of(template) is form


def test_ids_are_what_the_templates_of_the_families_accept():
    ids = {MISTRAL.new_id() for _ in range(50)}
    assert len(ids) == 50
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert HERMES.new_id().startswith("call_")
